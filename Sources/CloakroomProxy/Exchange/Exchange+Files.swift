import CloakroomCore
import CloakroomTelemetry
import CloakroomWire
import NIOCore
import NIOPosix

/// A file that is being sent.
final class FileTransfer {
    /// `nil` if the bytes are in memory.
    let file: OpenFile?
    let bytes: ByteBuffer
    /// The bytes to send.
    var rest: Range<Int>
    /// Whether a piece is being read or written: the connection may become writable meanwhile.
    var isBusy = true

    /// The maximum number of bytes that are read, or taken from memory, at once.
    static let maxPiece = 65_536
    /// The maximum number of pieces that are read on the event loop before the others get their turn.
    static let maxPieces = 4
    var piece: Range<Int> { rest.prefix(Self.maxPiece) }
    var pieceInMemory: ByteBuffer? { bytes.getSlice(at: bytes.readerIndex + rest.lowerBound, length: piece.count) }

    init(_ file: OpenFile?, _ bytes: ByteBuffer, _ range: Range<Int>) {
        (self.file, self.bytes, rest) = (file, bytes, range)
    }
}

/// Responds with files.
extension Exchange {
    /// The file that the request is for, or what it gets instead.
    func serveFile(_ route: RouteRuntime, now: UInt64) {
        guard let folder = route.files else { return respond(route.problem(.notFound), now: now) }
        telemetry.decided(.file)
        let file = request.normalPath(from: route.filesPrefix)
        if let entry = folder.entry(at: file) { return send(entry, route, now: now) }
        let (tree, path) = (folder.tree, Array(buffer: file))
        if tree.isFolder(path) {
            let location = request.normalPath + [UInt8(ascii: "/")] + request.queryWithMark
            return redirect(308, to: location, isStored: false, now: now)
        }
        guard let fallback = tree.fallback, !folder.configuration.isImmutable(path) else {
            return respond(route.problem(.notFound), now: now)
        }
        // A script that gets a page in place of a missing module or a result fails in ways that are hard to explain.
        if request.fetchMetadata.isShown { return send(fallback, isFallback: true, route, now: now) }
        // With error pages, the problem has the field already.
        let vary = snapshot.config.errorPages == nil ? Array("Vary: \(FetchMetadata.shownVary)\r\n".utf8) : []
        respond(route.problem(.notFound), moreFieldLines: vary, now: now)
    }

    private func send(_ entry: FileEntry, isFallback: Bool = false, _ route: RouteRuntime, now: UInt64) {
        let noStore = "Cache-Control: no-store\r\n"
        let lines = { (variant: FileEntry.Variant, isModified: Bool) in
            entry.fieldLines(
                variant, isPrivate: route.access.usesSession, isFallback: isFallback, isModified: isModified)
        }
        switch FileResponse.decide(entry, request.head, isGET: request.method == .get) {
        case .full(let variant): begin(200, lines(variant, true), variant, 0..<variant.size, route)
        case .part(let variant, let range):
            let field = "Content-Range: bytes \(range.lowerBound)-\(range.upperBound - 1)/\(variant.size)\r\n"
            begin(206, lines(variant, true) + Array(field.utf8), variant, range, route)
        case .notModified(let variant): respond(status: 304, fieldLines: lines(variant, false), body: [], now: now)
        case .preconditionFailed: respond(status: 412, fieldLines: Array(noStore.utf8), body: [], now: now)
        case .unsatisfiable(let size):
            let fields = "Content-Range: bytes */\(size)\r\n\(noStore)"
            respond(status: 416, fieldLines: Array(fields.utf8), body: [], now: now)
        }
    }

    /// Sends the head and the bytes of a file; only the head if there are none to send.
    private func begin(
        _ status: Int, _ lines: [UInt8], _ variant: FileEntry.Variant, _ range: Range<Int>, _ route: RouteRuntime
    ) {
        let head = LocalResponse(
            status: status, title: Problem.title(of: status), fieldLines: lines, body: [], date: context.date,
            followingLength: range.count)
        if request.method == .head || range.isEmpty { return respond(head) }
        if let bytes = variant.bytes {
            guard range.count <= FileTransfer.maxPiece,
                let piece = bytes.getSlice(at: bytes.readerIndex + range.lowerBound, length: range.count)
            else { return start(FileTransfer(nil, bytes, range), head) }
            // Most files: their only piece ends the response.
            machine.sendFile()
            writeHead(head)
            upstreamBody(piece)
            return upstreamEnd(trailers: nil)
        }
        let limit = snapshot.config.configuration.limits.openFiles
        guard let file = OpenFile(variant.content, limit: limit, load: peer.load) else {
            return fileUnavailable(retryAfter: 1)
        }
        let transfer = FileTransfer(file, ByteBuffer(), range)
        self.transfer = transfer
        machine.suspend()
        downstream?.setDeadline(context.now.addingClamped(route.responseHeadTimeout))
        read(file, transfer) { [self] bytes in
            guard machine.resume() == .proceed else { return }
            if let bytes { return start(transfer, head, bytes) }
            // Another file, or none any more: a scan will find out.
            route.files?.requestScan()
            fileUnavailable(retryAfter: 2)
        }
    }

    /// Too many files are open, or this one is not the one that was scanned, or the disk does not respond.
    func fileUnavailable(retryAfter: Int) {
        transfer = nil
        telemetry.failed(.overloaded)
        guard let route else { return abortResponse(.overloaded) }
        respond(route.problem(.overloaded, retryAfter: retryAfter), now: context.now)
    }

    /// - Parameter bytes: The first piece; `nil` if it is in memory.
    private func start(_ transfer: FileTransfer, _ head: LocalResponse, _ bytes: ByteBuffer? = nil) {
        self.transfer = transfer
        machine.sendFile()
        writeHead(head)
        deliver(bytes ?? transfer.pieceInMemory, transfer)
        continueTransfer()
    }

    /// Sends as much of the file as the client takes.
    ///
    /// Pieces are read, and not sent by the system (sendfile): that would send pages which change after the last check,
    /// wait for the disk on the event loop, and not show how much a slow client takes. What is in memory is read here, because
    /// the way to another thread and back costs as much as the reading.
    func continueTransfer() {
        var count = 0
        while let transfer, !transfer.isBusy, machine.isRelaying, let downstream {
            // More is sent when the client has taken some of what waits.
            guard takesMore(of: transfer, downstream) else { return clientFellBehind() }
            transfer.isBusy = true
            guard let file = transfer.file else {
                deliver(transfer.pieceInMemory, transfer)
                continue
            }
            clientCaughtUp()
            downstream.setDeadline(responseDeadline())
            let fits =
                request.version != .http2
                || downstream.unacceptedBytes(isExact: false) + transfer.piece.count <= HTTP2Stream.outboundLimit
            if fits, count < FileTransfer.maxPieces, let bytes = file.readFromMemory(transfer.piece) {
                count += 1
                deliver(bytes, transfer)
                continue
            }
            read(file, transfer) { [self] bytes in
                deliver(bytes, transfer)
                continueTransfer()
            }
        }
    }

    /// Whether the client takes another piece. In HTTP/2 what its windows allow does not count: all streams fill theirs
    /// before the flush. From disk a piece more is read meanwhile.
    private func takesMore(of transfer: FileTransfer, _ downstream: any ResponseWriter) -> Bool {
        guard request.version == .http2 else { return downstream.isWritable }
        let count = transfer.file == nil ? transfer.piece.count : 0
        return downstream.unacceptedBytes(isExact: false) + count <= HTTP2Stream.outboundLimit
    }

    /// - Parameter bytes: `nil` if the file has changed: the client must notice.
    private func deliver(_ bytes: ByteBuffer?, _ transfer: FileTransfer) {
        guard let bytes else {
            route?.files?.requestScan()
            return abortResponse(.internalError)
        }
        transfer.rest = transfer.rest.dropFirst(bytes.readableBytes)
        upstreamBody(bytes)
        if transfer.rest.isEmpty { upstreamEnd(trailers: nil) } else { upstreamReadComplete() }
        transfer.isBusy = false
    }

    /// Reads the next piece. The disk may hang: the deadline of the response ends the request then.
    private func read(_ file: OpenFile, _ transfer: FileTransfer, _ resume: @escaping (ByteBuffer?) -> Void) {
        let piece = transfer.piece
        NIOThreadPool.singleton.runIfActive(eventLoop: context.eventLoop) { file.read(piece) }.assumeIsolated()
            .whenComplete { [self] result in
                guard self.transfer === transfer else { return }
                context.updateTime()
                resume((try? result.get()) ?? nil)
            }
    }
}
