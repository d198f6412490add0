
# metadata NAME
metadata() {
    request GET 'Metadata-Flavor: Google' "/computeMetadata/v1/instance/$1" ||
        fail "the metadata service of Google Cloud does not tell $1"
}
