"""Words of results tables: metrics, detectors, data sets, titles."""
