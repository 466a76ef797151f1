// Package deploycheck checks the files of deploy: the Compose file with the library of
// Docker Compose, the manifests with the types of Kubernetes and the schemas of KEDA.
package deploycheck
