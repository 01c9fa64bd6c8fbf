# syntax=docker/dockerfile:1
# The service, on a CPU: docker build -t macrid . && docker run -e MACRID_TOKEN=… -v ./runs:/runs -p 8000:8000 macrid
ARG PYTHON=3.11

FROM python:${PYTHON}-slim AS build
WORKDIR /src
COPY pyproject.toml constraints.txt README.md LICENSE ./
COPY src src
RUN python -m venv /opt/macrid
RUN --mount=type=cache,target=/root/.cache/pip \
    /opt/macrid/bin/pip install --disable-pip-version-check -c constraints.txt \
    --extra-index-url https://download.pytorch.org/whl/cpu '.[postgres,serve]'
RUN /opt/macrid/bin/macrid --version && /opt/macrid/bin/macrid serve --help >/dev/null

FROM python:${PYTHON}-slim
RUN useradd --uid 10001 --create-home macrid && install -d -o macrid -g macrid /runs /data
COPY --from=build /opt/macrid /opt/macrid
ENV PATH=/opt/macrid/bin:$PATH PYTHONUNBUFFERED=1 MACRID_DATA=/data
USER macrid
WORKDIR /home/macrid
VOLUME ["/runs", "/data"]
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=5s --start-period=60s --retries=3 \
    CMD ["python", "-c", "from urllib.request import urlopen; urlopen('http://127.0.0.1:8000/readyz', timeout=4)"]
ENTRYPOINT ["macrid"]
CMD ["serve", "/runs/current", "--host", "0.0.0.0"]
