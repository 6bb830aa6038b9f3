"""Pydantic models of requests and answers, which OpenAPI shows.

models         those of v2
models3        those of v3
models_groups  consumer groups of v3
"""
