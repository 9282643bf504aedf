"""Before labels: which pooling, how many samples."""
