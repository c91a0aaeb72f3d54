"""Race on a course of gates, judged live; in an arcade people choose the course."""
