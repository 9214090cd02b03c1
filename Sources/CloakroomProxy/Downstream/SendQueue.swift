import NIOCore

#if canImport(Glibc)
    import Glibc
#elseif canImport(Musl)
    import Musl
#endif

/// Bytes that were written to a channel and that the peer has not accepted.
enum SendQueue {
    /// Bytes that the system has not taken over. No system call. Must be called on the channel's event loop.
    static func buffered(in channel: any Channel) -> Int {
        (try? channel.syncOptions?.getOption(.bufferedWritableBytes)) ?? 0
    }

    /// Bytes that the peer has not acknowledged, including those in the socket's send buffer, if the system reports
    /// them. One system call. Must be called on the channel's event loop.
    static func unacknowledged(in channel: any Channel) -> Int {
        buffered(in: channel) + inSocket(of: channel)
    }

    #if os(Linux)
        private static func inSocket(of channel: any Channel) -> Int {
            guard let provider = channel as? any SocketOptionProvider else { return 0 }
            let future: EventLoopFuture<TCPInformation> = provider.unsafeGetSocketOption(
                level: NIOBSDSocket.OptionLevel(rawValue: CInt(IPPROTO_TCP)),
                name: NIOBSDSocket.Option(rawValue: TCPInformation.optionName))
            // On the event loop the result is available at once. A socket that is not TCP has none.
            var count = 0
            future.assumeIsolated().whenSuccess { count = $0.unacknowledgedBytes }
            return count
        }
    #else
        private static func inSocket(of channel: any Channel) -> Int { 0 }
    #endif
}

/// Connections that wait on a listening socket to be accepted.
enum ListenQueue {
    /// One system call, on the channel's event loop; elsewhere the result follows later.
    /// - Returns: The number of connections; `nil` if the system does not report it.
    static func count(of channel: any Channel) -> EventLoopFuture<Int?> {
        #if os(Linux)
            if let provider = channel as? any SocketOptionProvider {
                let future: EventLoopFuture<TCPInformation> = provider.unsafeGetSocketOption(
                    level: NIOBSDSocket.OptionLevel(rawValue: CInt(IPPROTO_TCP)),
                    name: NIOBSDSocket.Option(rawValue: TCPInformation.optionName))
                return future.map(\.waitingConnections)
            }
        #endif
        return channel.eventLoop.makeSucceededFuture(nil)
    }
}

#if os(Linux)
    /// The beginning of `struct tcp_info` (linux/tcp.h), up to `tcpi_bytes_retrans`, which the system fills as far as it
    /// knows its fields. All of it is plain memory, so any content is valid.
    private struct TCPInformation: Sendable {
        /// `TCP_INFO`.
        static let optionName: CInt = 11

        private var words = InlineArray<27, UInt64>(repeating: 0)

        private func field<Value: FixedWidthInteger & BitwiseCopyable>(at offset: Int, as type: Value.Type) -> Value {
            withUnsafeBytes(of: words) { $0.load(fromByteOffset: offset, as: type) }
        }

        /// Connections that wait to be accepted, of a listening socket: `tcpi_unacked`, which is only reported together with
        /// the length of the queue, `tcpi_sacked`.
        var waitingConnections: Int? {
            field(at: 28, as: UInt32.self) == 0 ? nil : Int(field(at: 24, as: UInt32.self))
        }

        /// Bytes in the send buffer: `tcpi_notsent_bytes`, and those that are not acknowledged, which are
        /// `tcpi_bytes_sent` without `tcpi_bytes_retrans` and `tcpi_bytes_acked`.
        var unacknowledgedBytes: Int {
            let (sent, again) = (field(at: 200, as: UInt64.self), field(at: 208, as: UInt64.self))
            let inFlight = Int64(bitPattern: sent &- again &- field(at: 120, as: UInt64.self))
            return Int(field(at: 144, as: UInt32.self)) &+ Int(max(0, inFlight))
        }
    }
#endif
