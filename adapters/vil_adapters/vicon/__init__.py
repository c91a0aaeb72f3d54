"""Vicon: the DataStream of Tracker, Nexus, Shogun and Blade, Tracker's UDP object stream, native
SDKs.
"""
