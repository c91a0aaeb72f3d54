"""ROS without an installation of it: a ROS 2 node over zenoh, and bags of both generations."""
