"""Hashes and judges credentials; the rows are the services' business."""
