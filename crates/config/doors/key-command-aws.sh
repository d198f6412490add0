[# What prints the key of a host at AWS. -#]
#!/bin/sh
# Prints the key that opens the secrets of this host.
exec aws secretsmanager get-secret-value --region '<AWS::Region>' --secret-id '<[[ role.id ]]KeySecret>' \
    --query SecretString --output text
