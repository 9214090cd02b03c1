/// A target: 16 workers and a queue.
struct ModelTarget {
    static let workers = 16

    /// The present behavior; `nil` as usual.
    var incident: Incident.Kind?
    private var busy = 0
    private var queue: [RequestName] = []
    private var queueStart = 0

    /// What happens with a request that arrives.
    enum Arrival {
        /// A worker processes it.
        case begins
        /// It waits for a worker.
        case waits
        /// It fails at once.
        case fails
        /// It is never processed.
        case isLost
    }

    mutating func arrive(_ request: RequestName) -> Arrival {
        switch incident {
        case .fails: return .fails
        case .hangs, .unreachable, .absent: return .isLost
        case .slow, nil: break
        }
        guard busy >= Self.workers else {
            busy += 1
            return .begins
        }
        queue.append(request)
        return .waits
    }

    /// A worker ended.
    mutating func finish() {
        busy -= 1
    }

    /// The next waiting request, if a worker is free and the target processes requests.
    mutating func next() -> RequestName? {
        guard busy < Self.workers, queueStart < queue.count else { return nil }
        let request = queue[queueStart]
        queueStart += 1
        if queueStart == queue.count {
            queue.removeAll(keepingCapacity: true)
            queueStart = 0
        }
        return request
    }

    mutating func begin() {
        busy += 1
    }

    /// Nanoseconds that a worker needs for a request.
    func duration(_ service: UInt64) -> UInt64 {
        if case .slow(let factor) = incident { UInt64(Double(service) * factor) } else { service }
    }

    /// Whether responses are sent.
    var responds: Bool {
        switch incident {
        case .hangs, .unreachable: false
        case .fails, .slow, .absent, nil: true
        }
    }

    var isReachable: Bool {
        switch incident {
        case .unreachable, .absent: false
        case .fails, .slow, .hangs, nil: true
        }
    }
}

/// An attempt of a request: a place in the array of requests, and how often the place was changed before.
struct RequestName: Equatable {
    var index: Int
    var generation: Int
}
