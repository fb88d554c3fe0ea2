"""The sampler: a process of its own that writes down what the hardware of a job does.

Standard library only, and no torch: it runs next to the training and must cost it nothing.
"""
