package model

import "io"

type counter struct {
	r io.Reader
	n int
}

func (c *counter) of(r io.Reader) *counter {
	c.r = r
	return c
}

func (c *counter) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	c.n += n
	return n, err
}
