"""Do several metrics of one table agree on the order of detectors?"""
