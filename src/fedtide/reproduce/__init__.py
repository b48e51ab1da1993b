"""Reproductions: figures and tables of papers as studies, with the claims that each study tests."""
