public import CloakroomCore
import CloakroomTLS

/// The files that TLS needs, tried as they will be used.
public enum TLSFiles {
    /// Reads all certificates, keys and trust roots of a plan, and makes of them what serving makes.
    /// - Returns: A sentence for each that is of no use: which file, why, and what to do.
    public static func mistakes(in plan: GatewayPlan) -> [String] {
        var mistakes: [String] = []
        for listener in plan.listeners {
            guard let tls = listener.tls else { continue }
            do { _ = try TLSListener(tls, allowsHTTP2: listener.http2) } catch { mistakes.append("\(error)") }
        }
        for upstream in plan.upstreams {
            guard let tls = upstream.tls else { continue }
            do { _ = try UpstreamTLS.context(tls) } catch { mistakes.append("\(error)") }
        }
        if plan.tracing.exporter == .otlp, plan.tracing.otlp.caFile != nil {
            do { _ = try UpstreamTLS.context(plan.tracing.otlp.tls) } catch { mistakes.append("\(error)") }
        }
        return mistakes
    }
}
