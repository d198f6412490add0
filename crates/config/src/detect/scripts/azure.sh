
# metadata NAME
metadata() {
    request GET 'Metadata: true' "/metadata/instance/$1?api-version=2021-02-01&format=text" ||
        fail "the metadata service of Azure does not tell $1"
}
