/// The body of one export: an `ExportTraceServiceRequest` (opentelemetry-proto, trace_service.proto).
enum OTLPRequest {
    /// Spans of one process, all of one scope.
    static func body(_ spans: [FinishedSpan], resource: OTelResource) -> [UInt8] {
        var request = ProtobufWriter()
        request.message(1) { resourceSpans in
            resourceSpans.message(1) { message in
                for (name, value) in resource.attributes { message.attribute(1, name, value) }
            }
            resourceSpans.message(2) { scopeSpans in
                scopeSpans.message(1) { scope in
                    scope.string(1, "cloakroom")
                    scope.string(2, resource.version)
                }
                for span in spans { scopeSpans.span(2, span) }
            }
        }
        return request.bytes
    }
}

/// The body of a collector's response: an `ExportTraceServiceResponse`.
enum OTLPResponse {
    /// The number of spans of an accepted batch that the collector rejected; 0 if not specified.
    static func rejectedSpans(_ body: [UInt8]) -> Int {
        var response = ProtobufReader(body[...])
        while let (field, value) = response.next() {
            guard field == 1, case .bytes(let bytes) = value else { continue }
            var partialSuccess = ProtobufReader(bytes)
            while let (field, value) = partialSuccess.next() {
                if field == 1, case .number(let count) = value { return max(0, Int(Int64(bitPattern: count))) }
            }
        }
        return 0
    }
}
