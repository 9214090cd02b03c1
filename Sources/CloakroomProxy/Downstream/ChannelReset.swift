import NIOCore
import NIOSSL

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Closes connections with a TCP reset instead of an orderly close.
enum TCPReset {
    /// Makes the next close of the channel a reset; call it immediately before closing. If that is not possible, the
    /// close is orderly.
    static func onClose(_ channel: any Channel) {
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
}

/// Closes a connection in the middle of a response.
enum ChannelCut {
    /// Closes the channel below TLS, without the close_notify alert that would mark the end as intended (RFC 8446 §6.1;
    /// RFC 9112 §9.8). Unsent data is lost. Must be called on the channel's event loop.
    static func close(_ channel: any Channel) {
        // `close` on the handler's own context starts below the handler, so no alert is sent.
        guard let tls = try? channel.pipeline.syncOperations.context(handlerType: NIOSSLServerHandler.self) else {
            return channel.close(promise: nil)
        }
        tls.close(promise: nil)
    }
}
