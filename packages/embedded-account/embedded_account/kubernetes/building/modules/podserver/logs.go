package main

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"time"
)

const pollEvery = 100 * time.Millisecond

// logs writes a container's log. It is one file for all starts of the container, without times: what would need
// them is refused.
func (s *server) logs(response http.ResponseWriter, request *http.Request) {
	namespace, pod, name := request.PathValue("namespace"), request.PathValue("pod"), request.PathValue("container")
	container, err := s.container(namespace, pod, name)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	query := request.URL.Query()
	options, err := logOptions(query)
	if err != nil {
		http.Error(response, err.Error(), http.StatusBadRequest)
		return
	}
	file, err := os.Open(container.Log)
	if err != nil {
		http.Error(response, fmt.Sprintf("container %s has not been started", name), http.StatusBadRequest)
		return
	}
	defer file.Close()
	if err := seekTail(file, options.tail); err != nil {
		http.Error(response, err.Error(), http.StatusInternalServerError)
		return
	}
	out := &limited{writer: response, left: options.limit}
	for {
		// Asked before reading: what a program wrote before it ended is read after that was seen.
		container, err := s.container(namespace, pod, name)
		ended := err != nil || !container.Running
		if _, err := io.Copy(out, file); err != nil || !options.follow || ended {
			return
		}
		_ = http.NewResponseController(response).Flush()
		select {
		case <-request.Context().Done():
			return
		case <-time.After(pollEvery):
		}
	}
}

type options struct {
	follow bool
	tail   int64 // lines; -1: all
	limit  int64 // bytes; -1: all
}

func logOptions(query url.Values) (options, error) {
	found := options{tail: -1, limit: -1}
	for name := range query {
		value := query.Get(name)
		var err error
		switch name {
		case "follow":
			found.follow, err = strconv.ParseBool(value)
		case "tailLines":
			found.tail, err = strconv.ParseInt(value, 10, 64)
		case "limitBytes":
			found.limit, err = strconv.ParseInt(value, 10, 64)
		default:
			if value != "" && value != "false" && value != "All" {
				err = fmt.Errorf("the rehearsal does not know %s of a log", name)
			}
		}
		if err != nil {
			return found, err
		}
	}
	return found, nil
}

// seekTail leaves a file where its last lines begin.
func seekTail(file *os.File, lines int64) error {
	if lines < 0 {
		return nil
	}
	data, err := io.ReadAll(file)
	if err != nil {
		return err
	}
	end, start := len(bytes.TrimSuffix(data, []byte("\n"))), len(data)
	for ; lines > 0 && start > 0; lines-- {
		start = bytes.LastIndexByte(data[:end], '\n') + 1
		end = max(start-1, 0)
	}
	_, err = file.Seek(int64(start), io.SeekStart)
	return err
}

// limited stops after a number of bytes, if it has one.
type limited struct {
	writer io.Writer
	left   int64
}

func (l *limited) Write(data []byte) (int, error) {
	if l.left < 0 {
		return l.writer.Write(data)
	}
	if int64(len(data)) > l.left {
		data = data[:l.left]
	}
	written, err := l.writer.Write(data)
	l.left -= int64(written)
	if err == nil && l.left == 0 {
		err = io.ErrShortWrite
	}
	return written, err
}
