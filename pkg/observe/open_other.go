//go:build !unix

package observe

const openNonblock = 0
