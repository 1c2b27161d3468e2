"""What a stored result claims, and what of it follows from the instance: one table, decided in one place.

`apportion.claims.document` is the shape of a result, `deriving` looks at every claim beside its instance,
`due_shares` derives what is due to tenants, and `deciding` says of each claim whether it is derived, a
solver's word, or refused. The table stands in ``docs/certificate.md``.
"""
