@testable import CloakroomHTTP2

/// A simple model of a connection: which streams are open, and all windows, as the RFC describes them.
///
/// It knows streams by id, in dictionaries that only grow, and computes what a frame means. It has no header blocks.
struct ConnectionModel {
    struct Stream {
        var sendWindow: Int
        var receiveWindow: Int
        /// Bytes that were received and not consumed.
        var held = 0
        var isRemoteEnded: Bool
        var pending = 0
    }

    enum End {
        case reset, ended
    }

    enum Outcome: Equatable {
        case nothing
        case events([SeenEvent])
        case resetSent(UInt32, HTTP2ErrorCode)
        case failure(HTTP2ErrorCode)
    }

    let streamLimit: Int
    let streamWindow: Int
    var open: [UInt32: Stream] = [:]
    var closed: [UInt32: End] = [:]
    var last: UInt32 = 0
    var initialSendWindow = 65_535
    var sendWindow = 65_535
    var receiveWindow = 65_535
    static let largest = 0x7fff_ffff

    /// Resets an open stream for an error of the client.
    private mutating func reset(_ id: UInt32, _ code: HTTP2ErrorCode) -> Outcome {
        open[id] = nil
        closed[id] = .reset
        return .events([.closed(id, code)])
    }

    mutating func request(_ id: UInt32, isMalformed: Bool, end: Bool) -> Outcome {
        if id > last {
            last = id
            closed[id] = .reset
            guard open.count < streamLimit else { return .resetSent(id, .refusedStream) }
            guard !isMalformed else { return .events([.malformed]) }
            closed[id] = nil
            open[id] = Stream(sendWindow: initialSendWindow, receiveWindow: streamWindow, isRemoteEnded: end)
            return .events([.request(id, "GET /", end: end)])
        }
        guard let stream = open[id] else { return lateBlock(id) }
        // Pseudo-fields in trailers, or no end.
        return reset(id, stream.isRemoteEnded ? .streamClosed : .protocolError)
    }

    mutating func trailers(_ id: UInt32) -> Outcome {
        guard id <= last else { return request(id, isMalformed: true, end: true) }
        guard let stream = open[id] else { return lateBlock(id) }
        guard !stream.isRemoteEnded else { return reset(id, .streamClosed) }
        open[id]?.isRemoteEnded = true
        return .events([.trailers(id, ["x: y"])])
    }

    private func lateBlock(_ id: UInt32) -> Outcome {
        switch closed[id] {
        case .reset: .nothing
        case .ended: .failure(.streamClosed)
        case nil: .failure(.protocolError)
        }
    }

    mutating func data(_ id: UInt32, count: Int, padding: Int?, end: Bool) -> Outcome {
        guard id <= last else { return .failure(.protocolError) }
        let length = count + (padding.map { $0 + 1 } ?? 0)
        guard length <= receiveWindow else { return .failure(.flowControlError) }
        receiveWindow -= length
        guard let stream = open[id] else {
            return closed[id] == .reset ? .nothing : .resetSent(id, .streamClosed)
        }
        guard !stream.isRemoteEnded else { return reset(id, .streamClosed) }
        guard length <= stream.receiveWindow else { return reset(id, .flowControlError) }
        open[id]?.receiveWindow -= length
        open[id]?.held += count
        open[id]?.isRemoteEnded = end
        guard count > 0 || end else { return .nothing }
        return .events([.data(id, String(repeating: "a", count: count), end: end)])
    }

    mutating func windowUpdate(_ id: UInt32, _ increment: Int) -> Outcome {
        guard id > 0 else {
            guard increment > 0 else { return .failure(.protocolError) }
            sendWindow += increment
            return sendWindow > Self.largest ? .failure(.flowControlError) : .nothing
        }
        guard id <= last else { return .failure(.protocolError) }
        guard let stream = open[id] else { return .nothing }
        guard increment > 0 else { return reset(id, .protocolError) }
        guard stream.sendWindow + increment <= Self.largest else { return reset(id, .flowControlError) }
        open[id]?.sendWindow += increment
        return .nothing
    }

    mutating func initialWindow(_ value: Int) -> Outcome {
        for id in open.keys {
            open[id]?.sendWindow += value - initialSendWindow
            if open[id]?.sendWindow ?? 0 > Self.largest { return .failure(.flowControlError) }
        }
        initialSendWindow = value
        return .nothing
    }

    mutating func reset(_ id: UInt32) -> Outcome {
        guard id <= last else { return .failure(.protocolError) }
        guard open[id] != nil else { return .nothing }
        open[id] = nil
        closed[id] = .ended
        return .events([.closed(id, nil)])
    }

    // MARK: - The server's side

    mutating func finish(_ id: UInt32) {
        guard let stream = open.removeValue(forKey: id) else { return }
        closed[id] = stream.isRemoteEnded ? .ended : .reset
    }

    mutating func abort(_ id: UInt32) {
        open[id] = nil
        closed[id] = .reset
    }
}
