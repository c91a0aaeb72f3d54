"""Vehicle model ``example`` of VIL Bridge."""
