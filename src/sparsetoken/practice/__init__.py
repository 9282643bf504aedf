"""Your own data: which pooling, how many samples."""
