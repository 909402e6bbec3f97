"""Where classifiers are made and asked: data, networks, training, extraction."""
