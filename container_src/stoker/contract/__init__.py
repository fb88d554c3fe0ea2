"""What SageMaker promises a training container, and what it expects back.

Standard library only. Reads the outside world once, into one frozen `Job`.
"""
