package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"syscall"
	"time"

	"github.com/creack/pty"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"
)

// executor runs commands in a container, or says why it cannot.
type executor struct {
	container *Container
	refusal   error
}

// ExecInContainer runs a command to its end; its exit code is that of the returned error.
func (e executor) ExecInContainer(ctx context.Context, _, _, _ string, words []string, in io.Reader,
	out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration,
) error {
	if e.refusal != nil {
		return e.refusal
	}
	enter := e.container.Enter
	if len(enter) == 0 {
		enter = []string{"/usr/bin/env"} // finds the command on the container's own PATH
	}
	words = append(append([]string{}, enter...), words...)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Env = e.container.Environment
	command.Dir = e.container.Directory
	// The whole group goes when the client does: what stands before a command passes no signal on.
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	command.WaitDelay = time.Second
	run := runWithPipes
	if tty {
		run = runWithTerminal
	}
	return asExit(run(command, in, out, errOut, resize))
}

func runWithPipes(command *exec.Cmd, in io.Reader, out, errOut io.WriteCloser, _ <-chan remotecommand.TerminalSize) error {
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if out != nil {
		command.Stdout = out
	}
	if errOut != nil {
		command.Stderr = errOut
	}
	if in != nil {
		// Not command.Stdin: its end would be waited for, and a client may keep it open.
		pipe, err := command.StdinPipe()
		if err != nil {
			return err
		}
		go func() {
			_, _ = io.Copy(pipe, in)
			_ = pipe.Close()
		}()
	}
	return command.Run()
}

func runWithTerminal(command *exec.Cmd, in io.Reader, out, _ io.WriteCloser, resize <-chan remotecommand.TerminalSize) error {
	// A session of its own is a process group of its own, too.
	terminal, err := pty.Start(command)
	if err != nil {
		return err
	}
	defer terminal.Close()
	go func() {
		for size := range resize {
			_ = pty.Setsize(terminal, &pty.Winsize{Rows: size.Height, Cols: size.Width})
		}
	}()
	if in != nil {
		go func() { _, _ = io.Copy(terminal, in) }()
	}
	if out != nil {
		// Ends with an error when the last process has closed the terminal.
		_, _ = io.Copy(out, terminal)
	}
	return command.Wait()
}

// asExit gives an exit code to a command that ended with one, was killed, or could not be started.
func asExit(err error) error {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.Exited():
		return utilexec.CodeExitError{Err: err, Code: exit.ExitCode()}
	case errors.As(err, &exit):
		signal := exit.Sys().(syscall.WaitStatus).Signal()
		return utilexec.CodeExitError{Err: err, Code: 128 + int(signal)}
	case errors.Is(err, exec.ErrNotFound), errors.Is(err, os.ErrNotExist):
		return utilexec.CodeExitError{Err: err, Code: 127}
	}
	return err
}

// forwarder connects streams with ports of a pod, or says why it cannot.
type forwarder struct {
	pod     *Pod
	refusal error
}

// PortForward copies in both directions until one side ends.
func (f forwarder) PortForward(ctx context.Context, name, _ string, port int32, stream io.ReadWriteCloser) error {
	defer stream.Close()
	if f.refusal != nil {
		return f.refusal
	}
	if len(f.pod.Dial) > 0 {
		words := append(append([]string{}, f.pod.Dial...), fmt.Sprintf("127.0.0.1:%d", port))
		command := exec.CommandContext(ctx, words[0], words[1:]...)
		var refusal bytes.Buffer
		command.Stderr = &refusal
		if err := runWithPipes(command, stream, stream, nil, nil); err != nil {
			return fmt.Errorf("%w: %s", err, refusal.String())
		}
		return nil
	}
	address, known := f.pod.Ports[port]
	if !known {
		return fmt.Errorf("nothing of pod %s listens on port %d", name, port)
	}
	return dial(ctx, address, stream)
}

// dial connects a stream with an address until one side ends.
func dial(ctx context.Context, address string, stream io.ReadWriter) error {
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, "tcp", address)
	if err != nil {
		return err
	}
	defer connection.Close()
	go func() {
		_, _ = io.Copy(connection, stream)
		_ = connection.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, connection)
	return err
}

type standardStreams struct{}

func (standardStreams) Read(data []byte) (int, error)  { return os.Stdin.Read(data) }
func (standardStreams) Write(data []byte) (int, error) { return os.Stdout.Write(data) }
