"""What is studied: the task, the losses, the classifiers and their laws, the protocol."""
