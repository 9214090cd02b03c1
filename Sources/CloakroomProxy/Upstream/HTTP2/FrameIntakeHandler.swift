import CloakroomHTTP2
import NIOCore

/// Passes the bytes of an HTTP/2 server on to NIOHTTP2 as ``FrameIntake`` divides them. It is added before the handler
/// of NIOHTTP2.
final class FrameIntakeHandler: ChannelInboundHandler {
    typealias InboundIn = ByteBuffer
    typealias InboundOut = ByteBuffer
    /// The error that ends the connection.
    typealias Problem = FrameIntake.Problem

    private var intake: FrameIntake
    private let time: () -> UInt64
    private var hasFailed = false

    /// - Parameter time: Returns nanoseconds of a monotonic clock.
    init(time: @escaping () -> UInt64) {
        self.time = time
        intake = FrameIntake(now: time())
    }

    /// See ``FrameIntake/sent(_:)``.
    func sent(_ count: Int) { intake.sent(count) }

    func channelRead(context: ChannelHandlerContext, data: NIOAny) {
        guard !hasFailed else { return }
        var bytes = unwrapInboundIn(data)
        intake.receive(&bytes)
        let now = time()
        do throws(Problem) {
            while let frames = try intake.next(now: now) { context.fireChannelRead(wrapInboundOut(frames)) }
        } catch {
            hasFailed = true
            context.fireErrorCaught(error)
            context.close(promise: nil)
        }
    }
}
