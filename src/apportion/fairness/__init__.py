"""Fair shares found level by level: lexicographic max-min over tenants or jobs, for whole menus."""
