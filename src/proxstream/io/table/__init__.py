"""Readers of tables: Arrow, Parquet, data frames and JSON lines, column by column."""
