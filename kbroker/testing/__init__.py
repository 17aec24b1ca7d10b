"""What users' tests import."""
