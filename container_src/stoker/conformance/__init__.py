"""Does an image keep SageMaker's training contract? Plain Docker, no AWS, any image."""
