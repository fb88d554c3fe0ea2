"""What training on SageMaker costs: a dated table of prices, and the arithmetic of a bill."""
