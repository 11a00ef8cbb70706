package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"time"
)

// An entry is a file of an archive.
type entry struct {
	name    string
	mode    int64
	content []byte
}

// tarGz packs files so that the same files at the same time make the same bytes: it takes no owner, no mode and no time from the disk.
func tarGz(entries []entry, at time.Time) ([]byte, error) {
	var out bytes.Buffer
	compressed := gzip.NewWriter(&out)
	w := tar.NewWriter(compressed)
	for _, e := range entries {
		header := &tar.Header{Name: e.name, Typeflag: tar.TypeReg, Mode: e.mode, Size: int64(len(e.content)), ModTime: at, Format: tar.FormatUSTAR}
		if err := w.WriteHeader(header); err != nil {
			return nil, err
		}
		if _, err := w.Write(e.content); err != nil {
			return nil, err
		}
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	if err := compressed.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}
