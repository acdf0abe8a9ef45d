//go:build !unix

package httpd

func descriptors() int { return descriptorsMost }
