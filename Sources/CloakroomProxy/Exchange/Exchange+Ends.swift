import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// What bounds an exchange, and how it is given up.
extension Exchange {
    /// Whatever was sent of the answer is not all of it: the client has to see that.
    func abortResponse(_ error: ExchangeErrorType) {
        cancelUpstream()
        let downstream = self.downstream
        machine.finish()
        finish(errorType: error)
        downstream?.abort()
    }

    /// Lets go of the upstream, answered or not.
    func cancelUpstream() {
        upstream?.cancel()
        upstream = nil
    }

    /// The client has sent more than the route takes.
    func bodyTooLarge() {
        cancelUpstream()
        record.errorType = .bodyTooLarge
        guard case .awaitingResponse = machine.state, let permit else { return abortResponse(.bodyTooLarge) }
        respond(snapshot.config.routes[permit.route].problem(.contentTooLarge), now: context.now)
    }

    /// The request is sent: the upstream has so much time for its answer.
    func expectResponse() {
        guard let permit else { return }
        downstream?.setDeadline(requestSentAt &+ snapshot.config.routes[permit.route].responseHeadTimeout)
    }

    /// How long a body may pause, in nanoseconds.
    var bodyIdle: UInt64 {
        permit.map { snapshot.config.routes[$0.route].bodyIdleTimeout } ?? snapshot.timeouts.bodyIdle
    }

    /// The largest body that is taken, in bytes.
    var bodyLimit: Int {
        permit.map { snapshot.config.routes[$0.route].bodyLimit } ?? 0
    }

    /// Whether the request may be sent twice, and can be (RFC 9110 §9.2.2).
    var isIdempotent: Bool {
        guard framing == .none else { return false }
        return switch record.method {
        case .get, .head, .put, .delete, .options, .trace: true
        case .post, .patch, .connect, .other: false
        }
    }
}
