"""Files of every format as rows of texts: delimited text, JSON, workbooks."""
