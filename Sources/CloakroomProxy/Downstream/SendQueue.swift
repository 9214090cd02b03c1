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
    /// The beginning of `struct tcp_info` (linux/tcp.h), which the system fills as far as it knows its fields. All of it
    /// is plain memory, so any content is valid.
    private struct TCPInformation: Sendable {
        /// `TCP_INFO`.
        static let optionName: CInt = 11

        typealias Words = (UInt64, UInt64, UInt64, UInt64, UInt64)

        /// From `tcpi_state` to `tcpi_total_retrans`: 104 bytes.
        private var head: (Words, Words, UInt64, UInt64, UInt64) = (
            (0, 0, 0, 0, 0), (0, 0, 0, 0, 0), 0, 0, 0
        )
        private var pacingRate: UInt64 = 0
        private var maximumPacingRate: UInt64 = 0
        private var bytesAcknowledged: UInt64 = 0
        private var bytesReceived: UInt64 = 0
        private var segmentsSent: UInt32 = 0
        private var segmentsReceived: UInt32 = 0
        private var bytesNotSent: UInt32 = 0
        private var minimumRoundTrip: UInt32 = 0
        private var dataSegmentsReceived: UInt32 = 0
        private var dataSegmentsSent: UInt32 = 0
        private var deliveryRate: UInt64 = 0
        private var busyTime: UInt64 = 0
        private var windowLimited: UInt64 = 0
        private var bufferLimited: UInt64 = 0
        private var delivered: UInt32 = 0
        private var deliveredMarked: UInt32 = 0
        private var bytesSent: UInt64 = 0
        private var bytesRetransmitted: UInt64 = 0

        /// Connections that wait to be accepted, of a listening socket: `tcpi_unacked`, which is only reported together with
        /// the length of the queue, `tcpi_sacked`.
        var waitingConnections: Int? {
            let fields = withUnsafeBytes(of: head) { bytes in
                (bytes.load(fromByteOffset: 24, as: UInt32.self), bytes.load(fromByteOffset: 28, as: UInt32.self))
            }
            return fields.1 == 0 ? nil : Int(fields.0)
        }

        /// Bytes in the send buffer: not sent, or not acknowledged.
        var unacknowledgedBytes: Int {
            let inFlight = Int64(bitPattern: bytesSent &- bytesRetransmitted &- bytesAcknowledged)
            return Int(bytesNotSent) &+ Int(max(0, inFlight))
        }
    }
#endif
