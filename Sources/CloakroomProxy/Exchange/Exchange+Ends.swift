import CloakroomCore
import CloakroomTelemetry
import CloakroomWire

/// Limits of an exchange, and aborting it.
extension Exchange {
    /// Aborts the response: the client must notice that it is incomplete.
    func abortResponse(_ error: ExchangeErrorType) {
        cancelUpstream()
        let downstream = self.downstream
        machine.finish()
        finish(errorType: error)
        downstream?.abort()
    }

    /// Cancels the upstream request, whether or not a response was received.
    func cancelUpstream() {
        upstream?.cancel()
        upstream = nil
    }

    /// The request body exceeds the route's limit.
    func bodyTooLarge() {
        cancelUpstream()
        record.errorType = .bodyTooLarge
        guard case .awaitingResponse = machine.state, let permit else { return abortResponse(.bodyTooLarge) }
        respond(snapshot.config.routes[permit.route].problem(.contentTooLarge), now: context.now)
    }

    /// Starts the response timeout. Called when the request has been sent.
    func expectResponse() {
        guard let permit else { return }
        downstream?.setDeadline(requestSentAt &+ snapshot.config.routes[permit.route].responseHeadTimeout)
    }

    /// Maximum pause within a body, in nanoseconds.
    var bodyIdle: UInt64 {
        permit.map { snapshot.config.routes[$0.route].bodyIdleTimeout } ?? snapshot.timeouts.bodyIdle
    }

    /// Maximum size of a request body, in bytes.
    var bodyLimit: Int {
        permit.map { snapshot.config.routes[$0.route].bodyLimit } ?? 0
    }

    /// Whether the request is idempotent (RFC 9110 §9.2.2) and has no body, so it can be sent again.
    var isIdempotent: Bool {
        guard framing == .none else { return false }
        return switch record.method {
        case .get, .head, .put, .delete, .options, .trace: true
        case .post, .patch, .connect, .other: false
        }
    }
}
