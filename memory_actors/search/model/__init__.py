"""The default embedding model: the published weights in, a checked ONNX graph out."""
