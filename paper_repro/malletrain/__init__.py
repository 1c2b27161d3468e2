"""MalleTrain: gap filling with jobs whose scaling is unknown."""
