// Package mediatype tells the media types of files.
package mediatype

import (
	"net/http"
	"path/filepath"
	"strings"
)

// types are those that models take, by file name extension. Systems differ in what the
// package mime knows.
var types = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp", ".svg": "image/svg+xml",
	".pdf": "application/pdf",
	".mp3": "audio/mpeg", ".wav": "audio/wav", ".ogg": "audio/ogg", ".flac": "audio/flac", ".m4a": "audio/mp4",
	".mp4": "video/mp4", ".webm": "video/webm", ".mov": "video/quicktime", ".avi": "video/x-msvideo", ".mpeg": "video/mpeg", ".mpg": "video/mpeg",
	".json": "application/json", ".xml": "application/xml",
}

// Of returns the type of a file by its name, else by its beginning.
func Of(path string, data []byte) string {
	if t, ok := types[strings.ToLower(filepath.Ext(path))]; ok {
		return t
	}
	kind, _, _ := strings.Cut(http.DetectContentType(data), ";")
	return kind
}
