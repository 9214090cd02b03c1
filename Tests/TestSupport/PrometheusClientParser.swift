package import Foundation

/// The parsers of PyPI's `prometheus_client`.
package struct PrometheusClientParser {
    /// A parsed metric family.
    package struct Family: Decodable {
        /// The values of `TYPE` and `HELP`; a counter's name lacks `_total`.
        package let name, type, help: String
        package let samples: [Sample]
    }

    /// A parsed sample.
    package struct Sample: Decodable {
        /// The sample's own name, with its suffix.
        package let name: String
        /// The labels, unescaped.
        package let labels: [String: String]
        /// The value as Python writes it: `1.0`, `nan`, `inf`.
        package let value: String
    }

    /// The parser rejected the exposition.
    package struct Rejected: Error, CustomStringConvertible {
        /// The parser's message.
        package let description: String
    }

    private let python: ExternalProgram

    /// Finds Python.
    package init() throws {
        python = try ExternalProgram("python3", package: "Debian's package python3 and PyPI's prometheus-client")
    }

    /// Parses an exposition, or throws ``Rejected``.
    package func parse(_ exposition: some DataProtocol) throws -> [String: Family] {
        let outcome = try python.run(["-c", Self.script], input: exposition)
        guard outcome.status == 0 else { throw Rejected(description: outcome.problems) }
        let families = try JSONDecoder().decode([Family].self, from: outcome.output)
        return Dictionary(families.map { ($0.name, $0) }) { first, _ in first }
    }

    // Read as bytes, so that a carriage return in a label value does not count as a line end.
    private static let script = """
        import io, json, sys
        import prometheus_client.parser as parser
        lines = io.StringIO(sys.stdin.buffer.read().decode("utf-8"), newline="\\n")
        families = parser.text_fd_to_metric_families(lines)
        print(json.dumps([{
            "name": f.name, "type": f.type, "help": f.documentation,
            "samples": [{"name": s.name, "labels": s.labels, "value": str(float(s.value))} for s in f.samples],
        } for f in families]))
        """
}
