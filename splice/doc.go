// Package splice moves payload into and out of connected sockets without copying
// it, by every way that Linux has: sendfile(2); splice(2) from a pipe filled by
// vmsplice(2) or tee(2); MSG_ZEROCOPY; and, on the receiving side, MSG_TRUNC,
// splice(2) into a sink and TCP_ZEROCOPY_RECEIVE.
//
// A mover serves one stream and is owned by one thread; only its Stats and Sizes
// may be read by others while it moves. It makes raw system calls that go around
// Go's scheduler, so that the thread should be locked and the socket needs
// SO_RCVTIMEO and SO_SNDTIMEO (see package internal/sys). It allocates nothing
// per call, makes one attempt per call, and leaves retrying to the caller.
//
// Each call returns (moved, handled, errno). handled is false only while the
// mover hasn't moved a byte: the kernel doesn't do this with this socket, nothing
// was consumed, and the caller may copy instead. EINTR and EAGAIN are the
// caller's business; Op tells which system call an errno came from.
//
// What a sender sends is a [Payload] over and over: byte i of the stream is byte
// i modulo Period of it, whatever the kernel cuts short. So byte limits are exact,
// and a receiver can check every byte, see [Pattern].
//
// Neither splice(2) nor sendfile(2) has a flag for "don't wait for the socket":
// MSG_DONTWAIT needs a socket with O_NONBLOCK, without which these movers refuse
// it (handled is false).
//
// The package isn't for proxies: nothing is read that someone would use, and it
// knows no protocol, no clock and no statistics beyond counting.
package splice
