"""Results as web pages: the parts that ``report.html`` and the viewer share."""
