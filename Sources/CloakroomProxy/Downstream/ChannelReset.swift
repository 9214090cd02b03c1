import NIOCore
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Makes the end of a connection a reset instead of an orderly close.
enum TCPReset {
    /// Has the channel reset its connection when it is closed; call it just before. Where that cannot be, it is closed
    /// as usual.
    static func onClose(_ channel: any Channel) {
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
}

/// Ends a connection in the middle of a response.
enum ChannelCut {
    /// Closes the channel below TLS, without the alert that would make the end look intended (RFC 8446 §6.1; RFC 9112
    /// §9.8). What is not sent yet is lost. Only on the channel's event loop.
    static func close(_ channel: any Channel) {
        // A close that begins at the handler's own place does not pass through it.
        guard let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) else {
            return channel.close(promise: nil)
        }
        tls.close(promise: nil)
    }
}
