import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Makes the end of a connection a reset instead of an orderly close.
enum ChannelReset {
    /// Has the channel reset its connection when it is closed; call it just before. Where that cannot be, it is closed
    /// as usual.
    static func onClose(_ channel: any Channel) {
        _ = (channel as? any SocketOptionProvider)?.setSoLinger(linger(l_onoff: 1, l_linger: 0))
    }
}
