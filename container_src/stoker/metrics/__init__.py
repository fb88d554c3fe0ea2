"""Metrics: TensorBoard, metrics.jsonl and the line that metric regexes read."""
