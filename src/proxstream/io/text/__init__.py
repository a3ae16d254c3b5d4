"""Readers of text formats: svmlight, Vowpal Wabbit and CSV, each with its compiled parser."""
